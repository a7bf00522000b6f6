"""Where new objects go."""
