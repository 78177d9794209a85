// Package charts turns the API's statistics into the series and tables that the console's charts are drawn from.
package charts
