"""A supply chain on polycast: the main job, end to end. Run it: make demo"""
