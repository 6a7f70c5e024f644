"""The templates that come with the project, each with the layouts that fill it in."""
