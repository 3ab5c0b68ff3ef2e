"""The stages, one file each; importing a file registers its stage."""
