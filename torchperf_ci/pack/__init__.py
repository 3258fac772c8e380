"""Keep a data branch small: what is old becomes one object a month."""
