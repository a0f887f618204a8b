"""How the product answers each family of vectors: a table `FAMILIES` by name in each module that has some."""
