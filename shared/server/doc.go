// Package server has no code: below it are the packages that the services of this repository share. They are a module of
// their own, so that module shared, which programs of users import, has no requirements. Nothing in here is promised to
// other programs: names and behaviour change from one version to the next.
package server
