"""Every method that is compared, one file each, behind one interface: train on the sources, adapt to a target, act."""
