"""Numbers that the code of quantised operators computes with, known or loaded."""
