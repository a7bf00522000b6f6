"""Where new objects go: placement rules, landmarks, and what is chosen on landmarks held out."""
