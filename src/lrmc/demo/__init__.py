"""`lrmc demo`: everything shown in a minute, on data that are made up."""
