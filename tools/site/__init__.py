"""Builds the course as a site: HTML that needs no network and no kernel."""
