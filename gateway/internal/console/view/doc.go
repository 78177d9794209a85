// Package view turns answers of the API into what pages draw: words, a job's timeline, JSON as a tree, a workflow as a
// graph. All of it is pure: no request, no clock.
package view
