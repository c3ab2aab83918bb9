"""The commands of `lrmc`, one module each: they ask, call the library, and show what came back."""
