"""verl: a trainer mixin and a reward loop."""
