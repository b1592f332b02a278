"""What several families of verifiers are made of."""
