"""The OpenVINO IR format, read."""
