"""How good is a judge: what it agrees with, what sways it, how steady it is."""
