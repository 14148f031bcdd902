"""The Spark job: from recorded traffic to bundles, in steps that can be repeated, killed and continued."""
