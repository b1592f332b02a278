"""How a reply is given: its length, its thinking, whether it is one."""
