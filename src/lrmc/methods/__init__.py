"""The methods: each a generator of steps over observations."""
