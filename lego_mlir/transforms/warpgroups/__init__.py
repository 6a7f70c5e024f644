"""Products by warpgroups: a staged product read off a kernel, planned for the units of sm_90, and written out."""
