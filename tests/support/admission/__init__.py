"""Cases for the admission rules of the custom resources, and samples of the resources."""
