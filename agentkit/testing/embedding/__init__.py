"""What do texts look like as vectors where no model is? The same each time, and alike when they share words."""
