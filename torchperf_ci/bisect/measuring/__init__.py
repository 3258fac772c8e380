"""What is run on a build, and how two builds are set against each other."""
