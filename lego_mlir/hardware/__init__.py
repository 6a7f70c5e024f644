"""Hardware numbers and models, each with its unit and its source; independent of any kernel."""
