"""Rules of stored values, equal to the bit to the numpy backend's."""
