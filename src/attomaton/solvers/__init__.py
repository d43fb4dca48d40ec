"""The Graph-SVM in every norm (hard) and the Luce model (soft), each with its certificate."""
