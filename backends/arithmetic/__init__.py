"""The arithmetic that backends share to be equal to the bit: fixed point, quantisation, interpolation."""
