"""What operators set at run time: parameters, policies and limits."""
