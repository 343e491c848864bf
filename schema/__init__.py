"""Model files: reading them into a `Model` and writing them from one."""

from circlet.schema.files import dump_model, load_model, save_model

__all__ = ["dump_model", "load_model", "save_model"]
