"""Rules of recurrent operators."""
