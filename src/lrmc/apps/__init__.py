"""Front doors for videos, satellite scenes, ultrasound cines and faces."""
