package main

const (
	sysRtSigqueueinfo   = 138
	sysRtTgsigqueueinfo = 240
	sysMovePages        = 239
	sysSetns            = 268
	sysProcessVMReadv   = 270
	sysProcessVMWritev  = 271
	sysKcmp             = 272
)
