"""Says which folder is which package; all else is in pyproject.toml.

`circlet/runtime` and the like are symbolic links, which not every system and archive keeps: a build uses the folders
that they point to.
"""

from setuptools import find_packages, setup

FOLDERS = ("backends", "runtime", "schema", "tools")

packages = set(find_packages(include=["circlet", "circlet.*"]))
for folder in FOLDERS:
    packages |= {f"circlet.{name}" for name in find_packages(include=[folder, f"{folder}.*"])}
setup(packages=sorted(packages), package_dir={f"circlet.{folder}": folder for folder in FOLDERS})
