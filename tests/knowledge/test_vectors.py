"""How does a text become a vector?"""

import pytest

from agentkit.errors import ConfigError
from agentkit.knowledge.vectors import BATCH, embedding


def test_texts_are_given_in_batches():
    """The function gets at most 64 texts at once; vectors come back with length 1, and one of nothing stays."""
    sizes = []

    def embed(texts):
        sizes.append(len(texts))
        return ((3, 4) if text else (0, 0) for text in texts)

    assert embedding(embed, None).vectors(["a"] * 70 + [""])[-2:] == [[0.6, 0.8], [0.0, 0.0]]
    assert sizes == [BATCH, 7]


@pytest.mark.parametrize(
    "given", [None, [1, 2], [[1.0]], [[1], [1, 2]], [["a"], [1]], [[float("nan")]] * 2, [[float("inf")]] * 2]
)
def test_what_is_no_vectors_is_told(given):
    """A function that gives something else is named in the error."""
    with pytest.raises(ConfigError, match="embed="):
        embedding(lambda _: given, None).vectors(["a", "b"])


@pytest.mark.parametrize("functions", [("model", None), (None, len), (len, "model")])
def test_what_is_no_function_is_told(functions):
    """`embed` and `embed_question` are functions, the second only with the first."""
    with pytest.raises(ConfigError):
        embedding(*functions)


def test_without_a_function_there_are_no_vectors():
    """Vectors are made only when a function is given."""
    assert embedding(None, None) is None
