"""The custom resources of group pulsaroperator.io."""
