// Package pages has the console's templates and the files that a browser loads, all embedded: no build step, nothing
// from elsewhere. assets/vendor holds htmx (live updates) and uPlot (charts) as their packages have them, with their
// licences; a test knows their SHA-256.
package pages
