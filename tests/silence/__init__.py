"""An oracle for silence: how often is a wrong answer given without a word?"""
