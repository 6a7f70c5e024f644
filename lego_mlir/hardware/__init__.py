"""Numbers and behaviour of the hardware, each with its unit and its source; nothing here knows a kernel."""
