"""Parts of what the mesh costs and how right its clock is: hosts in namespaces, other daemons on the same delays."""
