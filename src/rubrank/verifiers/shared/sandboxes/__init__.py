"""What the sandbox is made of, outside its walls."""
