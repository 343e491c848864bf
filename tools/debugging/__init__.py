"""What `circlet debug` shows and does where a run stops."""
