"""What brings token advantages into trainers, and what all of them share."""
