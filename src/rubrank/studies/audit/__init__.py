"""How good is a judge: its agreement with others, its biases, and its consistency."""
