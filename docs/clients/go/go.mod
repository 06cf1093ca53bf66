module example.com/topics

go 1.24
