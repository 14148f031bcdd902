"""What a cluster writes into its metadata stores, and what it removes when it is deleted. Pure."""
