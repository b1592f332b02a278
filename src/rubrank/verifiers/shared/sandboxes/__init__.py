"""The outer half of the sandbox: what runs outside its walls, and programs that we send inside."""
