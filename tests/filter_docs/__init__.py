"""docs/filters.md against the product: parameters, reasons and origins, and every rule by worked examples in it."""
