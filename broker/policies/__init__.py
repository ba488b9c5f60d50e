"""Settings that operators change at run time: parameters, policies and limits."""
