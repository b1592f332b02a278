"""What replay is made of: comparing rewards within groups, transforms of scores, what moves a rule."""
