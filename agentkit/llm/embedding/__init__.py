"""How does a text become a vector? By a model behind /embeddings, in as many requests as that takes."""
