"""The functions that every template can call: loads and stores, assignments, descriptors, C declarations."""
